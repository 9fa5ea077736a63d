import{za as n}from"./chunk-VXGQUUXI.js";var r=n([]);export{r as a};

import{Ba as n}from"./chunk-V5GODCSA.js";var r=n([]);export{r as a};

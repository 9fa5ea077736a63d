import{Ba as n}from"./chunk-VV7KMXS2.js";var r=n([]);export{r as a};
